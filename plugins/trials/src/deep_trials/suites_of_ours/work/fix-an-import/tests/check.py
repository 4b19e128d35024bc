"""Files that the agent never sees."""

from deep_trials.checking import Trial, call

FILES = {
    "a.csv": ("\ufeffid\tname\tlast, first\n1\tAda\tBo; Cy\n".encode(), [{"id": "1", "name": "Ada", "last, first": "Bo; Cy"}]),
    "b.csv": ('"a;b";"c,d,e,f"\n1;"x\n\ny"\n\n'.encode(), [{"a;b": "1", "c,d,e,f": "x\n\ny"}]),
    "c.csv": ("name,city\r\nJosé,Málaga\r\n".encode("latin-1"), [{"name": "José", "city": "Málaga"}]),
    "d.csv": ("name,city\r\nJosé,Málaga".encode(), [{"name": "José", "city": "Málaga"}]),
    "e.csv": (b'q,r\n"a ""b"" c",\n', [{"q": 'a "b" c', "r": ""}]),
    "f.csv": (b"only\n1\n2\n", [{"only": "1"}, {"only": "2"}]),
}


def check(trial: Trial) -> dict[str, bool]:
    said = {}
    for name, (data, want) in FILES.items():
        (trial.workspace / f"judge-{name}").write_bytes(data)
        said[name] = call(trial.workspace, "imports:read_rows", f"judge-{name}") == want
    sample = call(trial.workspace, "imports:read_rows", "samples/mark.csv") == [{"name": "Ada", "city": "Rome; Italy"}]
    return {"right": all(said.values()), "sample": sample}
