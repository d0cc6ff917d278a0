"""The words: prices, designs, thresholds, decisions, evaluations and fronts, as frozen values."""
