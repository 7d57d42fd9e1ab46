-- Gold of kpe spark fleet as views, of tables in a directory: spark-sql --hivevar out=/data/kpe -f views.sql
CREATE SCHEMA IF NOT EXISTS kpe;
CREATE OR REPLACE VIEW kpe.partition_outages COMMENT 'One row is a time in which a partition had no leader.'
  AS SELECT * FROM delta.`${out}/gold/partition_outages`;
CREATE OR REPLACE VIEW kpe.cluster_outages COMMENT 'One row is a time in which a cluster answered none of those that watched it.'
  AS SELECT * FROM delta.`${out}/gold/cluster_outages`;
CREATE OR REPLACE VIEW kpe.partition_count_history COMMENT 'One row is a time in which a topic had so many partitions.'
  AS SELECT * FROM delta.`${out}/gold/partition_count_history`;
CREATE OR REPLACE VIEW kpe.availability_hourly COMMENT 'One row is an hour of a topic.'
  AS SELECT * FROM delta.`${out}/gold/availability_hourly`;
CREATE OR REPLACE VIEW kpe.availability_daily COMMENT 'One row is a day of a topic.'
  AS SELECT * FROM delta.`${out}/gold/availability_daily`;
CREATE OR REPLACE VIEW kpe.slo_burn COMMENT 'One row is five minutes of a topic, or of all of a cluster (topic is null), unless all rates are 0.'
  AS SELECT * FROM delta.`${out}/gold/slo_burn`;
CREATE OR REPLACE VIEW kpe.leader_churn COMMENT 'One row is five minutes of a broker in which leadership moved.'
  AS SELECT * FROM delta.`${out}/gold/leader_churn`;
CREATE OR REPLACE VIEW kpe.skew COMMENT 'One row is a broker in a summary of its cluster.'
  AS SELECT * FROM delta.`${out}/gold/skew`;
