"""Sums of decimals in Spark's SQL: the same limbs, or others that come to the same."""

from __future__ import annotations

import random
from decimal import Decimal

import numpy as np
import pytest
from pyspark.sql import SparkSession

from mullion.aggregates.sum import SumOfDecimals
from mullion.expressions.functions.numbers import EXACT
from mullion.expressions.vector import Vector
from mullion.language.types import Type, decimal


@pytest.mark.slow
@pytest.mark.parametrize("type_", [decimal(8, 3), decimal(12, 2), decimal(18, 0), decimal(18, 18)], ids=str)
def test_spark_and_the_kernel_sum_alike(spark: SparkSession, type_: Type) -> None:
    chance, most = random.Random(3), 10**type_.precision - 1
    numbers = [*(chance.randrange(-most, most) for _ in range(50)), *[most] * 40]
    partial = SumOfDecimals(type_)
    for chosen in (numbers, numbers[50:], [-n for n in numbers[50:]], []):
        values = [Decimal(n).scaleb(-type_.scale, EXACT) for n in chosen] + [None]
        frame = spark.createDataFrame([(v,) for v in values], f"x {type_}")
        (row,) = frame.selectExpr(*partial.spark("x")).collect()
        stored = tuple(Vector.of(t, [v]) for t, v in zip(partial.stored, row, strict=True))
        found = partial.total(partial.store(partial.load(stored), stored))
        wanted = partial.total(partial.gather(Vector.of(type_, values), np.zeros(1, np.intp)))
        assert found.to_list() == wanted.to_list() == [Decimal(sum(chosen)).scaleb(-type_.scale, EXACT)]
