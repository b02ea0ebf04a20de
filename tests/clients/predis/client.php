<?php
// Predis, as Debian packages it.

declare(strict_types=1);

require __DIR__ . '/../shared/harness.php';
require 'Predis/Autoloader.php';
Predis\Autoloader::register();

// A script that the library sends by its digest, and whole where the server does not know it.
class AddByScript extends Predis\Command\ScriptCommand
{
    public function getKeysCount(): int
    {
        return 1;
    }

    public function getScript(): string
    {
        return ADD_SCRIPT;
    }
}

function connect(array $credentials = ['password' => PASSWORD]): Predis\Client
{
    $client = new Predis\Client(['host' => '127.0.0.1', 'port' => PORT] + $credentials);
    $client->getProfile()->defineCommand('addbyscript', AddByScript::class);
    return $client;
}

function ask(Predis\Client $client, ...$words)
{
    return $client->executeCommand(new Predis\Command\RawCommand($words));
}

function auth(): void
{
    refused('NOAUTH', 'no password', fn () => connect([])->ping());
    refused('WRONGPASS', 'a wrong password', fn () => connect(['password' => 'wrong'])->ping());
    refused('WRONGPASS', 'a wrong password of a user', fn () => connect(['username' => 'default', 'password' => 'wrong'])->ping());
    expect_ok(connect()->auth(PASSWORD), 'auth');
    expect((string) connect()->ping(), 'PONG', 'a password');
    expect(connect(['username' => 'default', 'password' => PASSWORD])->ping('hello'), 'hello', 'a user and a password');
    ok('auth');
    expect(ask(connect(['username' => USER, 'password' => USER_PASSWORD]), 'ACL', 'WHOAMI'), USER, 'another user');
    ok('user');
}

// The methods for keys, which need not know what a key holds.
function keys(Predis\Client $client): void
{
    expect($client->exists('users'), 1, 'exists');
    expect($client->expire('fixed', 100), 1, 'expire');
    expect(in_array($client->ttl('fixed'), range(1, 100), true), true, 'ttl');
    expect($client->persist('fixed'), 1, 'persist');
    expect_ok($client->rename('fixed', 'renamed'), 'rename');
    expect((string) $client->type('renamed'), 'MBbloom--', 'type');
    expect_ok($client->restore('restored', 0, $client->dump('users')), 'restore');
    expect(ask($client, 'BF.MEXISTS', 'restored', 'alice', 'carol'), [1, 0], 'a restored filter');
    $found = iterator_to_array(new Predis\Collection\Iterator\Keyspace($client, 're*'), false);
    sort($found);
    expect($found, ['renamed', 'restored'], 'scan');
    expect($client->del(['renamed', 'restored']), 2, 'del');
}

function strings(Predis\Client $client): void
{
    expect($client->setbit('bits', 7, 1), 0, 'setbit');
    expect([$client->getbit('bits', 7), $client->getbit('bits', 8)], [1, 0], 'getbit');
    expect([$client->bitcount('bits'), $client->bitpos('bits', 1)], [1, 7], 'bitcount and bitpos');
    expect($client->get('bits'), "\1", 'get');
    expect_ok($client->set('text', BINARY_ITEM, 'ex', 100, 'nx'), 'set');
    expect($client->set('text', 'a', 'nx'), null, 'set of a key that is there');
    expect($client->mget(['text', 'nothing', 'users']), [BINARY_ITEM, null, null], 'mget');
    refused('WRONGTYPE', 'BF.ADD to a string', fn () => ask($client, 'BF.ADD', 'text', 'a'));
    expect($client->del(['text', 'bits']), 2, 'del of strings');
}

function server(Predis\Client $client): void
{
    expect($client->info()['Persistence']['loading'], '0', 'info');
    expect(strpos($client->info('commandstats')['Commandstats']['cmdstat_bf.reserve'], 'calls=2,'), 0, 'info of commands');
    expect_ok($client->client('setname', 'tour'), 'client setname');
    expect(in_array('tour', array_column($client->client('list'), 'name'), true), true, 'client list');
    expect($client->config('get', 'maxclients'), ['maxclients' => '10000'], 'config');
    expect($client->command('info', 'bf.add')[0][1], 3, 'command');
    expect($client->command('count') > 50, true, 'the number of commands');
    expect(is_array($client->slowlog('get')), true, 'slowlog');
    expect(count($client->time()), 2, 'time');
    expect($client->dbsize() > 0, true, 'dbsize');
    expect($client->lastsave() > 0, true, 'lastsave');
}

// MONITOR: the library takes the lines apart.
function monitor(): void
{
    $monitor = connect()->monitor();
    ask(connect(), 'BF.EXISTS', 'users', "a \"quoted\"\nitem");
    do {
        $seen = $monitor->current();
    } while ($seen->command !== 'BF.EXISTS');
    expect([$seen->database, $seen->arguments], [0, '"users" "a \\"quoted\\"\\nitem"'], 'monitor');
    $monitor->stop();
}

function pipeline(Predis\Client $client): void
{
    $replies = $client->pipeline(function ($requests) {
        foreach (names('p:', PIPELINE) as $item) {
            $requests->executeCommand(new Predis\Command\RawCommand(['BF.ADD', 'piped', $item]));
        }
    });
    expect_mostly_new($replies, PIPELINE, 'the pipeline');
    ok('pipeline');
}

// Another client adds after the first look-up of the transaction.
function change_watched(Predis\Client $client): void
{
    $options = ['watch' => 'counted', 'cas' => true, 'retry' => 0];
    $client->transaction($options, function ($requests) {
        expect($requests->executeCommand(new Predis\Command\RawCommand(['BF.EXISTS', 'counted', 'c'])), 0, 'a look-up before MULTI');
        expect(ask(connect(), 'BF.ADD', 'counted', 'b'), 1, 'an add of another client');
        $requests->multi();
        $requests->executeCommand(new Predis\Command\RawCommand(['BF.ADD', 'counted', 'c']));
    });
}

function transaction(Predis\Client $client): void
{
    $replies = $client->transaction(['watch' => 'counted'], function ($requests) {
        $requests->executeCommand(new Predis\Command\RawCommand(['BF.ADD', 'counted', 'a']));
        $requests->executeCommand(new Predis\Command\RawCommand(['BF.EXISTS', 'counted', 'a']));
        $requests->expire('counted', 100);
    });
    expect($replies, [1, 1, 1], 'a transaction');
    refused('aborted', 'a watched key that changes', fn () => change_watched($client));
    expect(ask($client, 'BF.EXISTS', 'counted', 'c'), 0, 'what was not done');
    // A pipeline that is a transaction.
    $replies = $client->pipeline(['atomic' => true], function ($requests) {
        $requests->executeCommand(new Predis\Command\RawCommand(['BF.CARD', 'counted']));
        $requests->persist('counted');
    });
    expect($replies, [2, 1], 'an atomic pipeline');
    ok('transaction');
}

function script(Predis\Client $client): void
{
    $digest = sha1(ADD_SCRIPT);
    refused('NOSCRIPT', 'an unknown script', fn () => $client->evalsha($digest, 1, 'scripted', 'a'));
    expect($client->addbyscript('scripted', 'a'), 1, 'a new script');
    expect($client->evalsha($digest, 1, 'scripted', 'a'), 0, 'evalsha');
    expect($client->eval(ADD_SCRIPT, 1, 'scripted', 'b'), 1, 'eval');
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
    monitor();
    ok('commands');
    errors($ask);
    binary($ask);
    pipeline($client);
    transaction($client);
    script($client);
    batch($ask);
}

// The library drops a lost connection, and connects at the next request.
function write(): void
{
    $client = connect();
    write_forever(
        fn (string $item) => ask($client, 'BF.ADD', 'written', $item),
        fn ($problem) => preg_match('/LOADING|Connection refused|Broken pipe|reset by peer|while reading|while writing/', $problem->getMessage()) === 1
    );
}

$argv[1] === 'write' ? write() : tour();
