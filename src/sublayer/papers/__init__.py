"""The family: one short file per paper."""
