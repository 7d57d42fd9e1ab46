"""A transactional outbox in Django: rows are written with the order, and a management command relays them."""

from functools import partial
from typing import Any

from django.db import models

from kafka_partition_events.clients.confluent import PartitioningProducer


class Outbox(models.Model):
    key = models.TextField(null=True)
    value = models.TextField()
    delivered = models.BooleanField(default=False, db_index=True)

    class Meta:
        app_label = "orders"


def relay(producer: PartitioningProducer) -> None:
    """Send what is not delivered yet, oldest first. What fails is sent by the next call: at least once.

    Of each key one row is sent, so that none comes before an earlier one that has failed.
    """
    keys = set()
    for row in Outbox.objects.filter(delivered=False).order_by("pk")[:1000]:
        if row.key is None or row.key not in keys:
            keys.add(row.key)
            producer.produce("orders", row.value, row.key, on_delivery=partial(_done, row.pk))
    producer.flush()


def _done(pk: int, error: Any, message: Any) -> None:
    if error is None:
        Outbox.objects.filter(pk=pk).update(delivered=True)
