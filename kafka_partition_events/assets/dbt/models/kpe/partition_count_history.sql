select * from {{ kpe_gold('partition_count_history') }}
