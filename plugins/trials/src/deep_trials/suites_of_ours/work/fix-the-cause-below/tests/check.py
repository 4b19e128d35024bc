"""Amounts through all three callers: a patch at the symptom leaves two of them wrong."""

from deep_trials.checking import Trial, call

TOTALS = [(["0.5", "0.25"], "0.75"), (["7", "12.30"], "19.30"), (["-1.20", "0.2"], "-1.00"), (["-0.5"], "-0.50"), ([], "0.00")]


def check(trial: Trial) -> dict[str, bool]:
    work = trial.workspace
    return {
        "totals": all(call(work, "report:total", amounts) == want for amounts, want in TOTALS),
        "refunds": call(work, "refunds:largest", ["0.5", "0.09", "0.41"]) == 50,
        "ledger": call(work, "ledger:balance", "10", ["-0.5", "-0.05", "3.3"]) == "12.75",
        "cents": [call(work, "units:to_cents", each) for each in ("0.05", "-0.05", "100")] == [5, -5, 10000],
    }
