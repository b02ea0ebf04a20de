<?php
// Parts of a tour, for the programs in PHP. `$ask` sends the words of a request, and gives the reply or throws what it refuses.

declare(strict_types=1);

define('PORT', (int) getenv('SEPAL_PORT'));
define('PASSWORD', getenv('SEPAL_PASSWORD'));
define('USER', getenv('SEPAL_USER'));
define('USER_PASSWORD', getenv('SEPAL_USER_PASSWORD'));
const PIPELINE = 10000, BATCH = 100000;
// A filter of 1% may call so many new items known.
const NEW_MIN = 0.97;
const ADD_SCRIPT = "return redis.call('BF.ADD', KEYS[1], ARGV[1])";
define('BINARY_KEY', 'binary:' . implode(array_map('chr', range(0, 255))));
define('BINARY_ITEM', implode(array_map('chr', range(255, 0))));

// A warning of PHP, or of the library, fails the program.
set_error_handler(function (int $level, string $text, string $file, int $line): bool {
    throw new ErrorException($text, 0, $level, $file, $line);
});

function ok(string $part): void
{
    echo "ok $part\n";
}

function fail(string $what, $got): void
{
    echo $what, ': ', var_export($got, true), "\n";
    exit(1);
}

function expect($got, $wanted, string $what): void
{
    if ($got !== $wanted) {
        fail($what, $got);
    }
}

function expect_ok($got, string $what): void
{
    expect($got === true ? 'OK' : (string) $got, 'OK', $what);
}

// The call must throw an error that has the text.
function refused(string $text, string $what, callable $call): void
{
    try {
        $got = $call();
    } catch (Exception $problem) {
        if (strpos($problem->getMessage(), $text) === false) {
            fail($what, $problem->getMessage());
        }
        return;
    }
    fail("$what is not refused", $got);
}

function names(string $prefix, int $count): array
{
    return array_map(fn ($number) => $prefix . $number, range(0, $count - 1));
}

function expect_mostly_new(array $replies, int $count, string $what): void
{
    expect(count($replies), $count, "replies of $what");
    expect(count(array_keys($replies, 1, true)) > NEW_MIN * $count, true, "new items of $what");
}

function check_info(callable $ask): void
{
    $fields = [];
    foreach (array_chunk($ask('BF.INFO', 'users'), 2) as [$name, $value]) {
        $fields[(string) $name] = $value;
    }
    expect($fields['Capacity'], 1000, 'capacity');
    expect($fields['Expansion rate'], 4, 'expansion');
    expect($fields['Number of items inserted'], 2, 'items');
    expect($ask('BF.INFO', 'users', 'ITEMS'), [2], 'BF.INFO ITEMS');
}

function move_filter(callable $ask): void
{
    expect($ask('BF.MADD', 'source', 'a', 'b'), [1, 1], 'BF.MADD');
    for ([$iterator, $data] = $ask('BF.SCANDUMP', 'source', 0); $iterator !== 0; [$iterator, $data] = $ask('BF.SCANDUMP', 'source', $iterator)) {
        expect_ok($ask('BF.LOADCHUNK', 'moved', $iterator, $data), 'BF.LOADCHUNK');
    }
    expect($ask('BF.MEXISTS', 'moved', 'a', 'b', 'c'), [1, 1, 0], 'a filter that was moved');
}

function commands(callable $ask): void
{
    expect_ok($ask('BF.RESERVE', 'users', 0.001, 1000, 'EXPANSION', 4), 'BF.RESERVE');
    expect_ok($ask('BF.RESERVE', 'fixed', 0.01, 100, 'NONSCALING'), 'BF.RESERVE NONSCALING');
    expect($ask('BF.ADD', 'users', 'alice'), 1, 'BF.ADD');
    expect($ask('BF.MADD', 'users', 'alice', 'bob'), [0, 1], 'BF.MADD');
    expect($ask('BF.INSERT', 'other', 'CAPACITY', 500, 'ERROR', 0.01, 'ITEMS', 'x', 'y'), [1, 1], 'BF.INSERT');
    expect($ask('BF.EXISTS', 'users', 'alice'), 1, 'BF.EXISTS');
    expect($ask('BF.EXISTS', 'users', 'carol'), 0, 'BF.EXISTS of a new item');
    expect($ask('BF.MEXISTS', 'users', 'alice', 'carol'), [1, 0], 'BF.MEXISTS');
    expect($ask('BF.CARD', 'users'), 2, 'BF.CARD');
    expect($ask('BF.CHECK', 'users', 'alice', 'carol'), [1, 0], 'BF.CHECK');
    expect($ask('BF.FIND', 3, 'nothing', 'other', 'users', 'ITEMS', 'alice', 'x', 'carol'), [3, 2, 0], 'BF.FIND');
    expect_ok($ask('BF.MERGE', 'union', 1, 'users'), 'BF.MERGE');
    expect($ask('BF.MEXISTS', 'union', 'alice', 'carol'), [1, 0], 'BF.MEXISTS of a union');
    $ask('DEL', 'union');
    check_info($ask);
    move_filter($ask);
}

function errors(callable $ask): void
{
    refused('item exists', 'a second BF.RESERVE', fn () => $ask('BF.RESERVE', 'users', 0.001, 1000));
    refused('not found', 'NOCREATE', fn () => $ask('BF.INSERT', 'nothing', 'NOCREATE', 'ITEMS', 'x'));
    refused('not found', 'BF.CHECK without a filter', fn () => $ask('BF.CHECK', 'nothing', 'x'));
    refused('unknown command', 'an unknown command', fn () => $ask('NOSUCH'));
    ok('errors');
}

function binary(callable $ask): void
{
    expect($ask('BF.MADD', BINARY_KEY, BINARY_ITEM, ''), [1, 1], 'binary items');
    expect($ask('BF.EXISTS', BINARY_KEY, BINARY_ITEM), 1, 'a binary item');
    expect($ask('KEYS', 'binary:*'), [BINARY_KEY], 'a binary key');
    ok('binary');
}

function batch(callable $ask): void
{
    expect_ok($ask('BF.RESERVE', 'batch', 0.001, BATCH), 'BF.RESERVE');
    expect_mostly_new($ask('BF.MADD', 'batch', ...names('b:', BATCH)), BATCH, 'the batch');
    ok('batch');
}

// Adds w:0, w:1, ... until the process is killed. `$is_away` tells from an error whether the server is away, or loads its data.
function write_forever(callable $add, callable $is_away): void
{
    for ($number = 0; ; ) {
        try {
            $add("w:$number");
        } catch (Exception $problem) {
            if (!$is_away($problem)) {
                fail('an add', $problem->getMessage());
            }
            usleep(20000);
            continue;
        }
        echo $number++, "\n";
    }
}
