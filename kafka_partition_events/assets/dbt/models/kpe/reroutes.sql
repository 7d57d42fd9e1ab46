select * from {{ kpe_gold('reroutes') }}
