"""Streams as files: pages in the forms that other programs read, and a delivery that can be killed and goes on.

An `Output` turns batches into bytes that can be appended one after the other; a `Delivery` writes them to a file or a
pipe, and after each batch notes durably how far it came.
"""

from __future__ import annotations

from holdfast.streams.outputs.delivery import Delivery, DeliveryOptions
from holdfast.streams.outputs.output import FORMATS, Output, find_output
from holdfast.streams.outputs.parts import ParquetDelivery
from holdfast.streams.outputs.work_share import SharedDelivery

__all__ = ["FORMATS", "Delivery", "DeliveryOptions", "Output", "ParquetDelivery", "SharedDelivery", "find_output"]
