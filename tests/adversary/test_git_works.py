"""Git in the backend `sandbox`: what people do with it works, in one command or in many, in repositories of every kind.

Each operation is a command of its own, between which everything that runs later is compared: none is moved aside.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from deep_backends import SandboxBackend

# The commands are as long as they are.
# ruff: noqa: E501
WHO = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_EDITOR=true; "
MADE = """
git init -q -b main a; cd a; git config user.name a; git config user.email a@b
for i in 1 2 3 4; do echo $i > f$i; git add -A; git commit -qm $i; done; mkdir d; echo d > d/e; git add -A; git commit -qm d; git tag v0
git checkout -qb side HEAD~2; echo s > s; git add s; git commit -qm side; git checkout -q main; cd ..
git init -q -b main lib; cd lib; git config user.name a; git config user.email a@b; echo l > l; git add l; git commit -qm lib; cd ..
"""
"""The repositories `a` and `lib`."""

GROUPS: dict[str, tuple[str, str, str]] = {
    # name: what there is, in which folder of it the workspace is, and the operations, one a line or divided by ;;
    "a workspace of repositories": (
        MADE,
        ".",
        """
git clone -q a b ;; git -C b config user.name a ;; git -C b config user.email a@b ;; git -C b status
git clone -q --bare a bare.git ;; git clone -q --mirror a mirror.git ;; git clone -q --depth 1 file://$PWD/a shallow ;; git clone -q --no-checkout a bed
git -C shallow fetch -q --unshallow ;; git -C bed checkout -q main ;; git clone -q --branch side a by-branch ;; git clone -q --single-branch a single
git clone -q --local a local ;; git clone -q --shared a shared ;; git clone -q --reference a a referenced ;; git clone -q --separate-git-dir=sep.git a apart
git -C apart status ;; git -C apart commit -q --allow-empty -m apart ;; git init -q --bare new.git ;; git init -q new ;; git -C new symbolic-ref HEAD refs/heads/x
git -C b remote add other ../bare.git ;; git -C b fetch -q other ;; git -C b remote -v ;; git -C b remote rename other another ;; git -C b remote set-url another ../mirror.git
git -C b remote remove another ;; git -C b push -q ../bare.git HEAD:refs/heads/pushed ;; git -C bare.git branch -a ;; git -C bare.git gc -q ;; git -C bare.git fsck
git -C b checkout -q -b tracked origin/side ;; git -C b branch --unset-upstream ;; git -C b branch -u origin/side ;; git -C b pull -q ;; git -C b checkout -q main
git -C bare.git worktree add -q ../from-bare side ;; git -C from-bare status ;; git -C bare.git worktree remove ../from-bare
git -C b bundle create ../x.bundle main ;; git clone -q x.bundle from-bundle ;; git ls-remote -q a ;; git -C mirror.git remote update
cd b && git -c protocol.file.allow=always submodule add -q ../lib lib ;; cd b && git commit -qm sub ;; cd b && git submodule status ;; cd b && git submodule sync -q
cd b && git submodule foreach -q git status ;; cd b && git submodule absorbgitdirs ;; cd b && git submodule summary ;; cd b && git submodule set-branch -b main lib ;; cd b && git checkout -q .gitmodules
git -c protocol.file.allow=always clone -q --recurse-submodules b deep ;; cd deep && git submodule update --recursive ;; cd deep && git submodule deinit -f lib
cd deep && git -c protocol.file.allow=always submodule update -q --init ;; cd deep/lib && git checkout -q -b x && git commit -q --allow-empty -m x ;; cd deep && git add lib && git commit -qm moved
cd deep && git submodule update -q --rebase ;; cd deep && git rm -q lib ;; cd deep && git commit -qm gone ;; git -C b sparse-checkout list || true
""",
    ),
    "a repository at the top": (
        MADE,
        "a",
        """
git status ;; git status --porcelain=v2 --branch ;; git log --oneline ;; git log -p -1 ;; git log --graph --all ;; git log -S3 ;; git show HEAD ;; git show HEAD:f1 ;; git shortlog -sn HEAD
git diff HEAD~1 ;; git diff --stat HEAD~2 ;; git blame f1 ;; git annotate f2 ;; git grep 1 ;; git ls-files ;; git ls-tree -r HEAD ;; git cat-file -p HEAD ;; git rev-parse HEAD ;; git rev-list --count HEAD
git describe --tags ;; git name-rev HEAD ;; git for-each-ref ;; git show-ref ;; git merge-base main side ;; git count-objects -v ;; git var GIT_EDITOR ;; git check-ignore -q x || true ;; git check-attr -a f1
git whatchanged -1 || git log -1 ;; git reflog ;; git branch -a ;; git tag ;; git config --list ;; git config user.name ;; git hash-object f1 ;; git hash-object -w f1 ;; git write-tree ;; git fsck
echo x > new ;; git add new ;; git add -A ;; git add -u ;; git add -N f1 ;; git commit -qm new ;; git commit -q --amend -m new-again ;; git commit -q --amend --no-edit --reset-author ;; git commit -q --allow-empty -m empty
echo y >> f1 && git commit -qam all ;; echo z >> f1 && git commit -q --only f1 -m only ;; git commit -q --allow-empty --fixup HEAD ;; git rebase -q -i --autosquash HEAD~3 ;; git mv f2 g2 ;; git commit -qm moved
git rm -q g2 ;; git restore --staged g2 ;; git restore g2 ;; git rm -q --cached g2 ;; git reset -q ;; git reset -q --soft HEAD~1 ;; git commit -qm again ;; git reset -q --hard ;; git reset -q --mixed HEAD~1 ;; git checkout -q . ;; git clean -fdq
git branch one ;; git branch two ;; git branch three ;; git branch -D three ;; git checkout -q two ;; git switch -q main ;; git switch -q -c four ;; git switch -q - ;; git switch -q --detach ;; git switch -q main ;; git checkout -q -B five ;; git checkout -q main
git checkout -q --orphan alone ;; git commit -qm alone ;; git checkout -q main ;; git checkout -q side -- s ;; git commit -qm took ;; git update-index --refresh ;; git update-index --assume-unchanged f1 ;; git update-index --no-assume-unchanged f1
git tag v1 ;; git tag -a v2 -m two ;; git tag -f v1 HEAD~1 ;; git tag -d v1 ;; git notes add -m note ;; git notes show ;; git notes append -m more ;; git notes remove
git merge -q --no-ff side -m merged ;; git merge -q side ;; git checkout -q -b ours HEAD~1 && echo o > f1 && git commit -qam ours ;; git merge -q main -m x -X ours ;; git merge -q --squash side ;; git reset -q --hard ;; git checkout -q main
git checkout -q -b left HEAD~2 && echo l > c && git add c && git commit -qm left ;; git checkout -q -b right HEAD~1 && echo r > c && git add c && git commit -qm right ;; git merge -q left || git merge --abort ;; git merge -q left || (echo b > c; git add c; git commit -qm both)
git checkout -q left ;; git rebase -q main ;; git rebase -q --onto main HEAD~1 ;; git rebase -q -f HEAD~2 ;; git rebase -q right || git rebase --abort || true ;; git rebase -q right || (git checkout -q --theirs c; git add c; git rebase --continue) ;; git rebase -q --exec true HEAD~1 ;; git checkout -q main
git cherry-pick left || git cherry-pick --abort || true ;; git cherry-pick -n side || true ;; git reset -q --hard ;; git cherry main side ;; git revert --no-edit HEAD~1 || git revert --abort || true ;; git revert -n HEAD || true ;; git reset -q --hard
echo t >> f1 ;; git stash -q ;; git stash list ;; git stash show ;; git stash pop -q ;; git stash push -q -m named ;; git stash apply -q ;; git checkout -q . ;; git stash branch stashed ;; git reset -q --hard ;; git checkout -q main ;; echo u > u && git stash -q -u ;; git stash drop -q ;; git stash clear
git worktree add -q wt side ;; git -C wt status ;; cd wt && echo w > w && git add w && git commit -qm w ;; git -C wt checkout -q -b within ;; git worktree list ;; git worktree lock wt ;; git worktree unlock wt ;; git worktree move wt wt2 ;; git worktree repair ;; git worktree remove wt2 ;; git worktree add -q --detach wt3 ;; git worktree remove -f wt3 ;; git worktree prune
git format-patch -q -1 -o out ;; git checkout -q -b applied HEAD~1 ;; git am -q out/0001* || git am --abort ;; git apply --check out/0001* || true ;; git checkout -q main ;; git request-pull HEAD~1 . || true ;; git archive HEAD -o x.tar ;; git bundle create x.bundle HEAD ;; git clean -fdq
git bisect start ;; git bisect bad ;; git bisect good HEAD~2 ;; git bisect run true ;; git bisect reset ;; git rerere ;; git replace -l ;; git range-diff HEAD~1 HEAD~1 HEAD ;; git difftool --tool-help ;; git fast-export HEAD > /dev/null ;; git verify-pack -v .git/objects/pack/*.idx || true
git gc -q ;; git gc -q --aggressive --prune=now ;; git repack -qad ;; git prune ;; git pack-refs --all ;; git prune-packed ;; git commit-graph write ;; git multi-pack-index write ;; git maintenance run ;; git reflog expire --all --expire=now ;; git update-server-info ;; git read-tree HEAD ;; git checkout-index -a -f ;; git update-ref refs/x HEAD ;; git symbolic-ref HEAD
git filter-branch -f --msg-filter cat HEAD~1..HEAD || true ;; git fetch -q . main:fetched ;; git pull -q . side --no-edit --no-rebase || git merge --abort ;; git push -q . main:refs/heads/pushed
""",
    ),
    "a repository with a submodule at the top": (
        MADE + "cd a; git -c protocol.file.allow=always submodule add -q ../lib sub; git commit -qm sub; cd ..",
        "a",
        """
git status ;; git submodule status ;; git submodule update ;; git submodule update --init --recursive ;; git submodule foreach git status ;; git diff --submodule ;; git submodule summary
cd sub && git checkout -q -b x ;; cd sub && git commit -q --allow-empty -m y ;; cd sub && git log --oneline ;; cd sub && git stash list ;; git add sub ;; git commit -qm moved ;; git submodule update --checkout
cd sub && git gc -q ;; cd sub && git rebase -q HEAD~1 ;; git commit -q --allow-empty -m e ;; git rebase -q HEAD~1 ;; git checkout -q --recurse-submodules HEAD~1 ;; git checkout -q --recurse-submodules main ;; git clean -ffdq ;; git gc -q
""",
    ),
    "a bare repository at the top": (
        MADE + "git clone -q --bare a bare.git; rm -rf bare.git/hooks",
        "bare.git",
        """
git log --oneline ;; git branch one ;; git branch -D one ;; git tag t ;; git gc -q ;; git fsck ;; git worktree add -q wt side ;; cd wt && git commit -q --allow-empty -m w ;; git worktree remove wt ;; git fetch -q . main:x ;; git pack-refs --all
""",
    ),
    "a linked .git at the top": (
        MADE + "mv a/.git a/repo.git; echo 'gitdir: repo.git' > a/.git",
        "a",
        """
git status ;; git add -A -- f1 ;; echo x >> f1 ;; git commit -qam x ;; git checkout -q -b y ;; git rebase -q HEAD~1 ;; git stash list ;; git merge -q side -m m ;; git gc -q ;; git worktree add -q wt main ;; git worktree remove wt
""",
    ),
    "no repository before": (
        "true",
        ".",
        """
git init -q -b main . && git config user.name a ;; echo x > x ;; git add x ;; git commit -qm x ;; git branch y ;; git checkout -q y ;; git log ;; git gc -q
""",
    ),
}


def _steps(text: str) -> list[str]:
    return [step.strip() for line in text.strip().splitlines() for step in line.split(";;")]


def test_there_are_two_hundred() -> None:
    every = [step for *_, steps in GROUPS.values() for step in _steps(steps)]
    assert len({step for step in every if "git " in step}) >= 200


@pytest.mark.slow
@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize("group", GROUPS)
def test_git_works_in_the_sandbox(group: str, tmp_path: Path) -> None:
    made, folder, steps = GROUPS[group]
    tmp_path = tmp_path.resolve()

    async def work() -> list[str]:
        done = await SandboxBackend(tmp_path).run(f"{WHO}set -e\n{made}", shell=True, timeout=60)
        assert (done.exit_code, "sandboxed" in done.stderr) == (0, False), done.stderr
        backend = SandboxBackend(tmp_path / folder)
        failed: list[str] = []
        for step in _steps(steps):
            done = await backend.run(WHO + step, shell=True, timeout=60)
            if done.exit_code or "sandboxed" in done.stderr:
                failed.append(f"{step}: {done.stderr or done.stdout}")
        return failed

    assert asyncio.run(work()) == []


@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize("step", ["git remote add o ../lib", "git config user.name b", "git branch -m side other"])
def test_what_changes_the_configuration_of_the_workspace_is_refused(step: str, tmp_path: Path) -> None:
    async def work() -> tuple[int, str]:
        done = await SandboxBackend(tmp_path).run(f"{WHO}set -e\n{MADE}", shell=True, timeout=60)
        assert done.exit_code == 0, done.stderr
        before = (tmp_path / "a/.git/config").read_text()
        done = await SandboxBackend(tmp_path / "a").run(step, shell=True, timeout=60)
        assert (tmp_path / "a/.git/config").read_text() == before
        return done.exit_code, done.stderr

    code, said = asyncio.run(work())
    assert code != 0
    assert "Device or resource busy" in said
