"""The only package that knows Spark: sessions, sources, clusters, and batches as Spark hands them over."""
