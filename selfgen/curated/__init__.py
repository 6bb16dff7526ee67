"""The curated sets: load, canonicalise, pin by hash."""
