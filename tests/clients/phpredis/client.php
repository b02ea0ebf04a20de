<?php
// phpredis, as Debian packages it.

declare(strict_types=1);

require __DIR__ . '/../shared/harness.php';

// `$credentials`: a password, or a user and a password; null for none.
function connect($credentials = PASSWORD): Redis
{
    $client = new Redis();
    $client->connect('127.0.0.1', PORT);
    // Else the library gives `true` for each name in the reply of BF.INFO.
    $client->setOption(Redis::OPT_REPLY_LITERAL, true);
    if ($credentials !== null) {
        logged_in($client, $credentials);
    }
    return $client;
}

function logged_in(Redis $client, $credentials): void
{
    if (!$client->auth($credentials)) {
        throw new RedisException($client->getLastError() ?? 'no error');
    }
}

// The library gives false for most errors, and keeps their text.
function ask(Redis $client, ...$words)
{
    $client->clearLastError();
    $reply = $client->rawCommand(...$words);
    if ($client->getLastError() !== null) {
        throw new RedisException($client->getLastError());
    }
    return $reply;
}

function auth(): void
{
    refused('NOAUTH', 'no password', fn () => ask(connect(null), 'PING'));
    refused('WRONGPASS', 'a wrong password', fn () => connect('wrong'));
    refused('WRONGPASS', 'a wrong password of a user', fn () => connect(['default', 'wrong']));
    expect(connect()->ping(), true, 'a password');
    expect(connect(['default', PASSWORD])->ping('hello'), 'hello', 'a user and a password');
    ok('auth');
    $other = connect([USER, USER_PASSWORD]);
    expect($other->acl('WHOAMI'), USER, 'another user');
    expect(in_array(USER, $other->acl('USERS'), true), true, 'the users');
    expect($other->acl('GETUSER', USER)['keys'] ?? null, '~*', 'the keys of a user');
    ok('user');
}

// The methods for keys, which need not know what a key holds.
function keys(Redis $client): void
{
    expect($client->exists('users', 'nothing'), 1, 'exists');
    expect($client->expire('fixed', 100), true, 'expire');
    expect(in_array($client->ttl('fixed'), range(1, 100), true), true, 'ttl');
    expect($client->persist('fixed'), true, 'persist');
    expect($client->rename('fixed', 'renamed'), true, 'rename');
    expect($client->type('renamed'), Redis::REDIS_NOT_FOUND, 'a type that the library does not know');
    $image = $client->dump('users');
    expect($client->restore('restored', 0, $image), true, 'restore');
    expect(ask($client, 'BF.MEXISTS', 'restored', 'alice', 'carol'), [1, 0], 'a restored filter');
    $client->setOption(Redis::OPT_SCAN, Redis::SCAN_RETRY);
    $found = [];
    for ($cursor = null; ($some = $client->scan($cursor, 're*')) !== false; ) {
        $found = array_merge($found, $some);
    }
    sort($found);
    expect($found, ['renamed', 'restored'], 'scan');
    expect($client->del('renamed', 'restored'), 2, 'del');
}

function strings(Redis $client): void
{
    expect($client->setBit('bits', 7, true), 0, 'setBit');
    expect([$client->getBit('bits', 7), $client->getBit('bits', 8)], [1, 0], 'getBit');
    expect([$client->bitCount('bits'), $client->bitpos('bits', 1)], [1, 7], 'bitCount and bitpos');
    expect($client->get('bits'), "\1", 'get');
    expect($client->set('text', BINARY_ITEM, ['nx', 'ex' => 100]), true, 'set');
    expect($client->set('text', 'a', ['nx']), false, 'set of a key that is there');
    expect($client->mget(['text', 'nothing', 'users']), [BINARY_ITEM, false, false], 'mget');
    refused('WRONGTYPE', 'BF.ADD to a string', fn () => ask($client, 'BF.ADD', 'text', 'a'));
    expect($client->unlink('text', 'bits'), 2, 'unlink');
}

function server(Redis $client): void
{
    expect($client->info()['loading'], 0, 'info');
    expect(strpos($client->info('commandstats')['cmdstat_bf.reserve'], 'calls=2,'), 0, 'info of commands');
    expect($client->client('setname', 'tour'), true, 'client setname');
    $names = array_column($client->client('list'), 'name');
    expect(in_array('tour', $names, true), true, 'client list');
    expect($client->config('GET', 'maxclients'), ['maxclients' => '10000'], 'config');
    expect($client->config('SET', 'maxclients', '10000'), true, 'config set');
    expect($client->command('info', 'bf.add')[0][1], 3, 'command');
    expect($client->command('getkeys', ['bf.add', 'users', 'a']), ['users'], 'the keys of a command');
    expect($client->slowlog('len') >= 0, true, 'slowlog');
    expect(count($client->time()), 2, 'time');
    expect($client->role()[0], 'master', 'role');
    expect($client->object('encoding', 'users') !== '', true, 'object');
    expect($client->dbSize() > 0, true, 'dbSize');
    expect($client->select(1) && $client->dbSize() === 0 && $client->select(0), true, 'select');
    expect($client->lastSave() > 0, true, 'lastSave');
}

function pipeline(Redis $client): void
{
    $requests = $client->pipeline();
    foreach (names('p:', PIPELINE) as $item) {
        $requests->rawCommand('BF.ADD', 'piped', $item);
    }
    expect_mostly_new($requests->exec(), PIPELINE, 'the pipeline');
    ok('pipeline');
}

function transaction(Redis $client): void
{
    $client->watch('counted');
    $replies = $client->multi()->rawCommand('BF.ADD', 'counted', 'a')->rawCommand('BF.EXISTS', 'counted', 'a')->exec();
    expect($replies, [1, 1], 'a transaction');
    $client->watch('counted');
    expect(ask(connect(), 'BF.ADD', 'counted', 'b'), 1, 'an add of another client');
    $replies = $client->multi()->rawCommand('BF.ADD', 'counted', 'c')->exec();
    expect($replies, false, 'a watched key that changes');
    expect(ask($client, 'BF.EXISTS', 'counted', 'c'), 0, 'what was not done');
    expect($client->multi()->rawCommand('BF.ADD', 'counted', 'c')->discard(), true, 'discard');
    // In a transaction, an error is false, and what stands after it is done.
    $replies = $client->multi()->rawCommand('BF.INFO', 'nothing')->expire('counted', 100)->rawCommand('BF.CARD', 'counted')->exec();
    expect($replies, [false, true, 2], 'a transaction with an error');
    expect($client->getLastError(), 'ERR not found', 'the error');
    ok('transaction');
}

function script(Redis $client): void
{
    $digest = sha1(ADD_SCRIPT);
    $client->clearLastError();
    expect($client->evalSha($digest, ['scripted', 'a'], 1), false, 'an unknown script');
    expect(strpos($client->getLastError(), 'NOSCRIPT'), 0, 'the error');
    expect($client->eval(ADD_SCRIPT, ['scripted', 'a'], 1), 1, 'eval');
    expect($client->evalSha($digest, ['scripted', 'a'], 1), 0, 'evalSha');
    expect($client->script('load', ADD_SCRIPT), $digest, 'script load');
    expect($client->script('exists', $digest, sha1('')), [1, 0], 'script exists');
    ok('script');
}

function tour(): void
{
    auth();
    $client = connect();
    $ask = fn (...$words) => ask($client, ...$words);
    commands($ask);
    keys($client);
    strings($client);
    server($client);
    ok('commands');
    errors($ask);
    binary($ask);
    pipeline($client);
    transaction($client);
    script($client);
    batch($ask);
}

// The library connects again by itself, but gives up when the server is away for longer.
function write(): void
{
    $client = null;
    write_forever(
        function (string $item) use (&$client) {
            $client ??= connect();
            ask($client, 'BF.ADD', 'written', $item);
        },
        function ($problem) use (&$client) {
            $client = null;
            return preg_match('/LOADING|Connection (refused|lost|closed)|error on (read|connection)|went away|AUTH failed while reconnecting/', $problem->getMessage()) === 1;
        }
    );
}

$argv[1] === 'write' ? write() : tour();
