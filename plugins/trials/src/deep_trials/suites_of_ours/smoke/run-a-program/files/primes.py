"""Print how many primes there are up to a number, and their sum modulo 9973."""

import sys

most = int(sys.argv[1])
sieve = [True] * (most + 1)
for number in range(2, int(most**0.5) + 1):
    if sieve[number]:
        sieve[number * number :: number] = [False] * len(sieve[number * number :: number])
primes = [number for number in range(2, most + 1) if sieve[number]]
print(len(primes) * 10000 + sum(primes) % 9973)
