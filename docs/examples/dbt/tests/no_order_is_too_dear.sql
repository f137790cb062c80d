select id, amount from {{ ref('orders') }} where amount > {{ var('limit') }}
