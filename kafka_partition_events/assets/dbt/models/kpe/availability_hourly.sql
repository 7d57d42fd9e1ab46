select * from {{ kpe_gold('availability_hourly') }}
