select * from {{ kpe_gold('leader_churn') }}
