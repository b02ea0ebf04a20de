// The Bloom filter of go-zero, from node: the same bits as filter.go beside this. Then moved into a filter of Sepal by
// BF.IMPORTBITMAP. docs/guides/moving-from-a-bitmap.md explains it.
//
// Needs ioredis (npm install ioredis), and a sepald at SEPAL_HOST and SEPAL_PORT (127.0.0.1 and 6379 if not set).
import Redis from 'ioredis';

const BITMAP = 'goz:orders:bits';
const FILTER = 'goz:orders';
const COUNT = 10000;
const ABSENT = 100000;
const BITS = 20 * COUNT;
const PROBES = 14; // go-zero calls them maps
const BATCH = 1000;

const SET = `
for _, offset in ipairs(ARGV) do
	redis.call("setbit", KEYS[1], offset, 1)
end
`;
const TEST = `
for _, offset in ipairs(ARGV) do
	if tonumber(redis.call("getbit", KEYS[1], offset)) == 0 then
		return false
	end
end
return true
`;

const MASK = (1n << 64n) - 1n;
const C1 = 0x87c37b91114253d5n;
const C2 = 0x4cf5ad432745937fn;
const rotate = (x, count) => ((x << count) | (x >> (64n - count))) & MASK;

function finish(h) {
  h = ((h ^ (h >> 33n)) * 0xff51afd7ed558ccdn) & MASK;
  h = ((h ^ (h >> 33n)) * 0xc4ceb9fe1a85ec53n) & MASK;
  return h ^ (h >> 33n);
}

/** Bytes from `first` on, at most 8, as a number; the first byte is the lowest. Bytes behind the end are 0. */
function word(data, first) {
  let value = 0n;
  for (let at = Math.min(first + 8, data.length) - 1; at >= first; --at) value = (value << 8n) | BigInt(data[at]);
  return value;
}

/** The first half of MurmurHash3_x64_128 with seed 0, by Austin Appleby, in the public domain. */
function murmur3Sum64(data) {
  let h1 = 0n, h2 = 0n, at = 0;
  const mixed1 = (k) => (rotate((k * C1) & MASK, 31n) * C2) & MASK;
  const mixed2 = (k) => (rotate((k * C2) & MASK, 33n) * C1) & MASK;
  for (; at + 16 <= data.length; at += 16) {
    h1 ^= mixed1(word(data, at));
    h1 = ((rotate(h1, 27n) + h2) * 5n + 0x52dce729n) & MASK;
    h2 ^= mixed2(word(data, at + 8));
    h2 = ((rotate(h2, 31n) + h1) * 5n + 0x38495ab5n) & MASK;
  }
  h1 ^= mixed1(word(data, at)) ^ BigInt(data.length);
  h2 ^= mixed2(word(data, at + 8)) ^ BigInt(data.length);
  h1 = (h1 + h2) & MASK;
  h2 = (h2 + h1) & MASK;
  return (finish(h1) + finish(h2)) & MASK;
}

/** go-zero's getLocations. */
function offsets(item) {
  const bytes = [...Buffer.from(item)];
  return Array.from({length: PROBES}, (_, i) => String(murmur3Sum64([...bytes, i]) % BigInt(BITS)));
}

const order = (number) => `order-${number}`;

const redis = new Redis({host: process.env.SEPAL_HOST || '127.0.0.1', port: Number(process.env.SEPAL_PORT || 6379)});
redis.defineCommand('setBits', {numberOfKeys: 1, lua: SET});
redis.defineCommand('testBits', {numberOfKeys: 1, lua: TEST});

const addToBitmap = (to, item) => to.setBits(BITMAP, ...offsets(item));
const isInBitmap = (to, item) => to.testBits(BITMAP, ...offsets(item));
const isInFilter = (to, item) => to.call('BF.EXISTS', FILTER, item);

/** Sends one request for each number, in pipelines. Calls `take` with each number and its answer. */
async function each(first, last, send, take) {
  for (let begin = first; begin < last; begin += BATCH) {
    const end = Math.min(last, begin + BATCH);
    const pipeline = redis.pipeline();
    for (let number = begin; number < end; ++number) send(pipeline, order(number));
    for (const [at, [error, answer]] of (await pipeline.exec()).entries()) {
      if (error) throw error;
      take(begin + at, answer);
    }
  }
}

/** How many of the orders are known, and how many others are called known. */
async function report(name, ask) {
  let present = 0, wrong = 0;
  await each(0, COUNT + ABSENT, ask, (number, answer) => {
    if (answer !== 1) return;
    if (number < COUNT) present++;
    else wrong++;
  });
  console.log(`${name}: ${present} of ${COUNT} orders known, and ${wrong} of ${ABSENT} others`);
}

await each(0, COUNT, addToBitmap, () => {});
await report('bitmap', isInBitmap);
await redis.call('BF.IMPORTBITMAP', FILTER, BITMAP, 'SCHEME', 'go-zero', 'BITS', BITS, 'CAPACITY', COUNT);
await report('filter', isInFilter);

// New orders go to the filter, which grows. The bitmap is not needed any more.
await redis.del(BITMAP);
console.log('new order added:', await redis.call('BF.ADD', FILTER, 'order-new') === 1);
console.log('new order known:', await isInFilter(redis, 'order-new') === 1);
await redis.del(FILTER);
redis.disconnect();
