"""Streams as files: pages in formats that other programs read, and deliveries that survive a kill.

An `Output` turns batches into bytes that can be appended; a `Delivery` writes them to a file or a
pipe, and durably records its position after each batch.
"""

from __future__ import annotations

from holdfast.streams.outputs.delivery import Delivery, DeliveryOptions, SharedDelivery
from holdfast.streams.outputs.output import FORMATS, Output, find_output
from holdfast.streams.outputs.parquet import ParquetDelivery

__all__ = ["FORMATS", "Delivery", "DeliveryOptions", "Output", "ParquetDelivery", "SharedDelivery", "find_output"]
