"""Models behind OpenAI-compatible endpoints: questions of rows, answers that are labels, money."""
