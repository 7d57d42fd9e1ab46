select * from {{ kpe_gold('slo_burn') }}
