"""The inventory."""

from dataclasses import dataclass


@dataclass
class Article:
    """An article."""

    name: str
    count: int
    cents: int


def add(articles, new):
    """Return the articles with a new one."""
    for article in articles:
        if article.name == new.name:
            article.count += new.count
            return articles
    return [*articles, new]


def value(articles):
    """Return the value of all."""
    return sum(article["count"] * article["cents"] for article in articles)


def remove(articles, name, count):
    """Take some away."""
    for article in articles:
        if article["name"] == name:
            article["count"] -= count


def low(articles, least):
    """Return the names of which there are few."""
    return [article["name"] for article in articles if article["count"] < least]
