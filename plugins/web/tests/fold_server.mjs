// Folds what test_fold.py sends, a line of JSON each: {"events": [[event, …], …]}. Between two lists the server restarts.
import { createInterface } from "node:readline";

const { Fold } = await import(process.argv[2]);

for await (const line of createInterface({ input: process.stdin })) {
  let fold = null;
  for (const events of JSON.parse(line).events) {
    const next = new Fold();
    for (const event of events) next.take(event);
    if (fold !== null) next.keep(fold);
    fold = next;
  }
  console.log(JSON.stringify({ items: fold.items, running: fold.running }));
}
