"""From a query and the catalog to the algebra: names, types, windows, grouping, sub-queries."""
