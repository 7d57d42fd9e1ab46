select * from {{ kpe_gold('skew') }}
