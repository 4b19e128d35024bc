"""The function is called with orders that the agent never saw, outside of this process."""

from deep_trials.checking import Trial, call

ORDERS = [([], 0, 0), ([5], 0, 5), ([100, 250, 50], 0, 400), ([199, 301], 10, 450), ([333], 50, 166)]


def check(trial: Trial) -> bool:
    return all(call(trial.workspace, "totals:total", prices, discount) == want for prices, discount, want in ORDERS)
