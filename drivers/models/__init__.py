"""Language models that speak the OpenAI chat protocol: one after the other, until one answers (A1, A2, A4)."""
