"""The Matcha paper: hop weights γ, the losses that move them, base methods, models with γ."""
