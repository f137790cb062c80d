{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id') }}

select id, customer_id, day, amount, status
from {{ ref('daily_orders') }}
{% if is_incremental() %}
where day > (select max(day) from {{ this }})
{% endif %}
qualify row_number() over (partition by id order by day desc) = 1
