"""The new name works in all places, the old one is gone, and words that contain it are as they were."""

from deep_trials.checking import Broken, Trial, call, read


def check(trial: Trial) -> dict[str, bool]:
    work = trial.workspace
    try:
        call(work, "shop.prices:calc", 125, 25)
        old = True
    except Broken:
        old = False
    return {
        "renamed": call(work, "shop.prices:net_price", 125, 25) == 100,
        "used": call(work, "shop.invoice:lines", [["tea", 250]]) == ["tea: 200"]
        and call(work, "shop.report:turnover", [125, 250]) == 300,
        "gone": not old,
        "untouched": "calculator of the tax office" in read(work, "shop/report.py"),
    }
