select * from {{ kpe_gold('cluster_outages') }}
