{{ config(materialized='view') }}

select id, customer_id, cast(day as date) as day, amount, status
from {{ ref('raw_orders') }}
where day <= date '{{ var("until") }}'
