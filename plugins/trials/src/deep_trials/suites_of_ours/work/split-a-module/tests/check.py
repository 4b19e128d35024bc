"""Old and new imports, each first in a process of its own, and where each definition is."""

import ast

from deep_trials.checking import Trial, call, read

DRIVER = """
def shared(code):
    import shop
    from shop import coupons

    shop.COUPONS[code] = 50
    cart = shop.Cart()
    cart.add("pen", 101, 3)
    return [cart.total(code), coupons.discount(100, code), coupons.COUPONS is shop.COUPONS]


def new():
    from shop.carts import Cart
    from shop.labels import label

    cart = Cart()
    cart.add("pen", 100, 2)
    cart.add("ink", 50)
    return [cart.total("SPRING"), cart.total("NONE"), label(cart)]


def labels_first():
    import shop.labels

    return shop.labels.label.__module__


def old():
    from shop import COUPONS, Cart, discount, label

    return [sorted(COUPONS), Cart.__module__, discount.__module__, label.__module__, discount(1000, "BULK")]
"""


def defined(text: str) -> set[str]:
    try:
        nodes = ast.parse(text).body
    except SyntaxError:
        return set()
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in nodes if isinstance(node, kinds)}


def check(trial: Trial) -> dict[str, bool]:
    work = trial.workspace
    (work / "judge_driver.py").write_text(DRIVER)
    return {
        "old": call(work, "judge_driver:old") == [["BULK", "SPRING"], "shop.carts", "shop.coupons", "shop.labels", 250],
        "new": call(work, "judge_driver:new") == [225, 250, "2 x pen\n1 x ink\ntotal 250"],
        "alone": call(work, "judge_driver:labels_first") == "shop.labels",
        "shared": call(work, "judge_driver:shared", "HALF") == [152, 50, True],
        "checkout": call(work, "checkout:receipt", [["pen", 100]]) == "1 x pen\ntotal 100",
        "once": not defined(read(work, "shop/__init__.py")) and defined(read(work, "shop/carts.py")) == {"Cart"},
        "gone": not (work / "shop.py").exists(),
    }
