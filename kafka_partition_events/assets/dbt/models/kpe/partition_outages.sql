select * from {{ kpe_gold('partition_outages') }}
