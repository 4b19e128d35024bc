"""`deep run` and `deep call`: one task or one call, its approvals, its report and what a person sees of it."""
