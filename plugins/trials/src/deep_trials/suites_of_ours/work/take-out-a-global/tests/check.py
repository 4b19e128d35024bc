"""Two counters and the module, played together."""

from deep_trials.checking import Trial, call

DRIVER = """
import counter


def play():
    said = []
    one, two = counter.Counter(), counter.Counter()
    said.append([one.hit("a"), one.hit("b", 3), two.hit("a", 5), counter.hit("c"), one.hit("a", times=2)])
    said.append([one.top(), two.top(), counter.top()])
    one.top().append("x")
    said.append(one.top(1))
    one.reset()
    said.append([one.top(), two.top(), counter.top(), one.hit("b"), one.top()])
    counter.reset()
    said.append([counter.top(), two.top(), counter.hit("c")])
    return said
"""
WANTED = [[1, 3, 5, 1, 3], [["a", "b"], ["a"], ["c"]], ["a"], [[], ["a"], ["c"], 1, ["b"]], [[], ["a"], 1]]


def check(trial: Trial) -> dict[str, bool]:
    (trial.workspace / "judge_driver.py").write_text(DRIVER)
    return {"right": call(trial.workspace, "judge_driver:play") == WANTED}
