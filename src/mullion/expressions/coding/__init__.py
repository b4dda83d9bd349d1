"""Values as whole numbers. All ways agree on which values are equal: those that Spark groups together.

Everywhere all NaNs are one value, -0.0 is 0.0, and dictionaries are what they stand for (`canonical`).

| way | codes | NULL | order | several columns | lists |
|---|---|---|---|---|---|
| `dictionary.codes_of`, `row_codes` | dense, for one batch | is a value | none | `combine` | by their text |
| `dictionary.ordered_codes` | dense, for one batch | -1 | Spark's: NaN is the largest | no | no |
| `hashes.keys_of` | the value, or a hash of it | equals nothing, or is a value | none | mixed | no |
| `code_table.CodeTable` | dense, kept for all batches | is a value | none | yes | by their text |
| `storage.lifetime_index.keys` | places in a set that grows, saved with an index | is a value | none | no | no |
| `kernels.lookup` | places in a set that stays; -1 for other values | equals nothing | none | in pairs | no |

Codes of one batch are for grouping, hashes for finding the rows of other batches without having seen them together, and
a code table for arrays that hold something for each value as long as it is there. The two sets are asked for values
that they may lack, and their codes never become free for others.
"""
