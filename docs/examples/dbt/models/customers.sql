{{ config(materialized='table') }}

select c.id, c.name, count(o.id) as orders, coalesce(sum(o.amount), 0) as spent
from {{ ref('raw_customers') }} c
left join {{ ref('orders') }} o on o.customer_id = c.id
group by c.id, c.name
