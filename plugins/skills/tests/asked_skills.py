"""900 skills as people write them, and for each a question as people ask it; made of the lists below, always the same.

A description says what the skill does, with what, and when to use it. The question has a form of its verb, one of the
subject's names, and words that say nothing. One question in thirty asks with a verb that the description does not have
(fix for repair), which no ranking by words finds. So the test measures the ranking among 900 skills that share their
words, 15 of them their subject; it is no sample of what people ask.
"""

from __future__ import annotations

from deep_core import SkillMeta

__all__ = ["QUESTIONS", "SKILLS"]

# Name; what it works on; other names of it, for "when the user mentions".
_SUBJECTS = """
pdf|PDF documents|PDF files, forms, scanned pages
docx|Word documents|docx files, letters, memos
xlsx|Excel workbooks|spreadsheets, xlsx files, pivot tables
pptx|PowerPoint presentations|slides, decks, pptx files
csv|CSV tables|comma-separated exports, tabular data
markdown|Markdown pages|README files, changelogs
latex|LaTeX papers|BibTeX, equations, manuscripts
epub|EPUB books|ebooks, chapters
svg|SVG drawings|vector graphics, icons
photo|photographs|JPEG images, thumbnails, portraits
video|videos|MP4 clips, subtitles, footage
audio|audio recordings|podcasts, MP3 tracks, voice notes
postgres|PostgreSQL databases|SQL queries, schemas, indexes
mysql|MySQL servers|replication, InnoDB
mongodb|MongoDB collections|aggregation pipelines, BSON
redis|Redis caches|key expiry, pub/sub
sqlite|SQLite files|embedded databases
kafka|Kafka topics|consumer groups, event streams
docker|Docker images|containers, Dockerfiles
kubernetes|Kubernetes clusters|pods, Helm charts, ingress
terraform|Terraform modules|infrastructure as code, state files
ansible|Ansible playbooks|inventories, roles
aws-lambda|AWS Lambda functions|serverless handlers
github-actions|GitHub Actions workflows|CI jobs, runners
git|Git repositories|branches, rebases, merge conflicts
nginx|nginx servers|reverse proxies, virtual hosts
react|React components|hooks, JSX, frontend state
django|Django applications|ORM models, admin pages
flask|Flask services|blueprints, WSGI
rust|Rust crates|borrow checker, cargo
golang|Go packages|goroutines, channels
typescript|TypeScript projects|tsconfig, type errors
swift|Swift apps|iOS views, Xcode
invoice|invoices|bills, payment terms, receivables
payroll|payroll runs|salaries, wage slips
tax|tax returns|deductions, VAT, fiscal year
contract|contracts|clauses, NDAs, legal agreements
resume|résumés|CVs, job applications
meeting|meeting minutes|action items, agendas
email|emails|newsletters, inbox, replies
calendar|calendars|appointments, time zones
survey|surveys|questionnaires, respondents
recipe|recipes|ingredients, meal plans
travel|travel plans|itineraries, flights, hotels
translation|translations|bilingual glossaries, localization
logo|logos|brand identity, color palettes
wireframe|wireframes|mockups, user interfaces
accessibility|web pages for accessibility|WCAG, screen readers, contrast
seo|search engine rankings|keywords, backlinks, meta tags
analytics|web analytics|page views, funnels, conversion rates
genome|genome sequences|FASTA, variants, alignments
molecule|molecules|SMILES, docking, compounds
weather|weather forecasts|temperature, rainfall
map|geographic maps|GeoJSON, coordinates, shapefiles
telescope|telescope observations|FITS, light curves, stars
circuit|electronic circuits|schematics, resistors, PCB layouts
robot|robot arms|kinematics, ROS
password|password policies|credentials, secrets, vaults
firewall|firewall rules|ports, packet filters
license|software licenses|open source compliance, SPDX
""".strip().splitlines()
# Name; the description's verb; the question's form of it; what it says it does.
_ACTIONS = """
extract|Extracts text and values from|extract|and returns them as structured data
convert|Converts|converting|to other formats without losing layout
merge|Merges several|merge|into one, in a given order
compare|Compares two|comparing|and reports every difference
validate|Validates|validate|against rules and explains each failure
summarize|Summarizes|summarizing|in a few sentences for busy readers
migrate|Migrates|migrate|from an old version to the present one
secure|Secures|securing|by finding weak points and closing them
document|Documents|document|with examples for newcomers
optimize|Optimizes|optimizing|for speed and lower cost
monitor|Monitors|monitor|and raises alerts at unusual changes
test|Tests|testing|with generated cases and a coverage report
template|Creates templates for|templates|that follow the company style
repair|Repairs broken|fix|and recovers what can be saved
archive|Archives and backs up|backing up|with checksums and a retention schedule
""".strip().splitlines()
_FORMS = (
    "How do I go about {verb} my {noun}?",
    "Can you please help me with {verb} {noun}",
    "I need to {verb} some {noun} that our customer sent us",
    "what is the best way to {verb} {noun} here",
    "{verb} {noun} for me please, thanks",
    "We have {noun} and I would like you to {verb} all of it",
)


def _made() -> list[tuple[SkillMeta, str]]:
    made: list[tuple[SkillMeta, str]] = []
    for row, subject in enumerate(_SUBJECTS):
        name, noun, others = subject.split("|")
        names = [noun, *others.split(", ")]
        for column, action in enumerate(_ACTIONS):
            key, does, asked, more = action.split("|")
            description = f"{does} {noun} {more}. Use this skill when the user mentions {others}."
            meta = SkillMeta(f"{name}-{key}", description, "user", f"/skills/{name}-{key}", None, None, {}, ())
            asked = "repairing" if key == "repair" and row % 2 else asked
            form = _FORMS[(row + column) % len(_FORMS)]
            made.append((meta, form.format(verb=asked, noun=names[(row * 7 + column) % len(names)])))
    return made


SKILLS = [meta for meta, _ in _made()]
QUESTIONS = {meta.name: question for meta, question in _made()}
"""By skill."""
