grammar LakestepSql;

singleStatement
    : .*? EOF #passThrough
    ;

ANY : . ;
