"""An Airflow DAG: the tables of a fleet each quarter of an hour, and maintenance each night.

Never two at once: one that begins takes the tables over from the other. So both DAGs share a pool of one
slot: ``airflow pools set kpe 1 "kpe spark"``.
"""

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator  # type: ignore[import-not-found]
from airflow.sdk import DAG  # type: ignore[import-not-found]

TABLES = "--out hdfs:///kpe"
HOW = {"pool": "kpe", "retries": 3, "retry_delay": timedelta(minutes=1)}  # a retry goes on where it was
WHEN = {"start_date": datetime(2026, 1, 1, tzinfo=UTC), "catchup": False, "max_active_runs": 1}

with DAG("kpe_fleet", schedule="*/15 * * * *", **WHEN):
    BashOperator(
        task_id="fleet", bash_command=f"kpe spark fleet -b kafka:9092 {TABLES} --once --output jsonl", **HOW
    )

with DAG("kpe_maintain", schedule="30 3 * * *", **WHEN):
    BashOperator(task_id="maintain", bash_command=f"kpe spark maintain {TABLES} --keep 90", **HOW)
