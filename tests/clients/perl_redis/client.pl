# The module Redis of Perl, as Debian packages it.
use strict;
use warnings FATAL => "all";

use Digest::SHA qw(sha1_hex);
use Redis;
use Time::HiRes qw(sleep);

my ($PORT, $PASSWORD) = @ENV{qw(SEPAL_PORT SEPAL_PASSWORD)};
my ($USER, $USER_PASSWORD) = @ENV{qw(SEPAL_USER SEPAL_USER_PASSWORD)};
my ($PIPELINE, $BATCH) = (10_000, 100_000);
# A filter of 1% may call so many new items known.
my $NEW_MIN = 0.97;
my $ADD_SCRIPT = "return redis.call('BF.ADD', KEYS[1], ARGV[1])";
my $BINARY_KEY = "binary:" . pack("C*", 0 .. 255);
my $BINARY_ITEM = pack("C*", reverse 0 .. 255);

$| = 1;
# The library writes to a connection that the server has reset. Without this line that ends the program.
$SIG{PIPE} = "IGNORE";

sub ok { print "ok $_[0]\n" }

sub expect {
    my ($got, $wanted, $what) = @_;
    defined $got && $got eq $wanted or die "$what: " . ($got // "nothing") . "\n";
}

sub expect_list {
    my ($got, $wanted, $what) = @_;
    expect(join(" ", map { $_ // "nothing" } @$got), join(" ", @$wanted), $what);
}

# The call must die with a text that has this one.
sub refused {
    my ($text, $what, $call) = @_;
    eval { $call->(); 1 } and die "$what is not refused\n";
    index($@, $text) >= 0 or die "$what: $@\n";
}

sub expect_mostly_new {
    my ($replies, $count, $what) = @_;
    expect(scalar @$replies, $count, "replies of $what");
    expect((grep { $_ == 1 } @$replies) > $NEW_MIN * $count, 1, "new items of $what");
}

sub attach {
    my (%options) = @_;
    return Redis->new(server => "127.0.0.1:$PORT", password => $PASSWORD, %options);
}

# A method for each command whose name has a dot: the library has a method for any name.
sub ask {
    my ($redis, $command, @words) = @_;
    return scalar $redis->$command(@words);
}

sub auth {
    refused("NOAUTH", "no password", sub { ask(attach(password => undef), "dbsize") });
    refused("WRONGPASS", "a wrong password", sub { attach(password => "wrong") });
    refused("WRONGPASS", "a wrong password of a user", sub { attach(username => "default", password => "wrong") });
    expect(attach()->ping, "PONG", "a password");
    expect(attach(username => "default")->ping, "PONG", "a user and a password");
    ok("auth");
    expect(attach(username => $USER, password => $USER_PASSWORD)->acl_whoami, $USER, "another user");
    ok("user");
}

sub move_filter {
    my ($redis) = @_;
    expect_list(ask($redis, "bf.madd", "source", "a", "b"), [1, 1], "BF.MADD");
    my $iterator = 0;
    while (1) {
        ($iterator, my $data) = @{ ask($redis, "bf.scandump", "source", $iterator) };
        last if $iterator == 0;
        expect(ask($redis, "bf.loadchunk", "moved", $iterator, $data), "OK", "BF.LOADCHUNK");
    }
    expect_list(ask($redis, "bf.mexists", "moved", "a", "b", "c"), [1, 1, 0], "a filter that was moved");
}

sub filters {
    my ($redis) = @_;
    expect(ask($redis, "bf.reserve", "users", 0.001, 1000, "EXPANSION", 4), "OK", "BF.RESERVE");
    expect(ask($redis, "bf.reserve", "fixed", 0.01, 100, "NONSCALING"), "OK", "BF.RESERVE NONSCALING");
    expect(ask($redis, "bf.add", "users", "alice"), 1, "BF.ADD");
    expect_list(ask($redis, "bf.madd", "users", "alice", "bob"), [0, 1], "BF.MADD");
    expect_list(ask($redis, "bf.insert", qw(other CAPACITY 500 ERROR 0.01 ITEMS x y)), [1, 1], "BF.INSERT");
    expect(ask($redis, "bf.exists", "users", "alice"), 1, "BF.EXISTS");
    expect(ask($redis, "bf.exists", "users", "carol"), 0, "BF.EXISTS of a new item");
    expect_list(ask($redis, "bf.mexists", "users", "alice", "carol"), [1, 0], "BF.MEXISTS");
    expect(ask($redis, "bf.card", "users"), 2, "BF.CARD");
    my %info = @{ ask($redis, "bf.info", "users") };
    expect_list([@info{ "Capacity", "Expansion rate", "Number of items inserted" }], [1000, 4, 2], "BF.INFO");
    expect_list(ask($redis, "bf.info", "users", "ITEMS"), [2], "BF.INFO ITEMS");
    move_filter($redis);
}

# The methods for keys, which need not know what a key holds.
sub keys_of_any_type {
    my ($redis) = @_;
    expect($redis->exists("users"), 1, "exists");
    expect($redis->expire("fixed", 100), 1, "expire");
    expect($redis->ttl("fixed") > 0, 1, "ttl");
    expect($redis->persist("fixed"), 1, "persist");
    expect($redis->rename("fixed", "renamed"), "OK", "rename");
    expect($redis->type("renamed"), "MBbloom--", "type");
    expect($redis->restore("restored", 0, $redis->dump("users")), "OK", "restore");
    expect_list(ask($redis, "bf.mexists", "restored", "alice", "carol"), [1, 0], "a restored filter");
    expect_list([sort $redis->keys("re*")], [qw(renamed restored)], "keys");
    my ($cursor, $found) = $redis->scan(0, "MATCH", "re*", "COUNT", 1000);
    expect_list([sort @$found], [qw(renamed restored)], "scan");
    expect($redis->del("renamed", "restored"), 2, "del");
}

sub strings {
    my ($redis) = @_;
    expect($redis->setbit("bits", 7, 1), 0, "setbit");
    expect_list([$redis->getbit("bits", 7), $redis->getbit("bits", 8)], [1, 0], "getbit");
    expect_list([$redis->bitcount("bits"), $redis->bitpos("bits", 1)], [1, 7], "bitcount and bitpos");
    expect($redis->get("bits"), "\1", "get");
    expect($redis->set("text", $BINARY_ITEM, "NX", "EX", 100), "OK", "set");
    expect($redis->set("text", "a", "NX") // "nothing", "nothing", "set of a key that is there");
    expect_list([$redis->mget("text", "nothing", "users")], [$BINARY_ITEM, "nothing", "nothing"], "mget");
    refused("WRONGTYPE", "BF.ADD to a string", sub { ask($redis, "bf.add", "text", "a") });
    expect($redis->unlink("text", "bits"), 2, "unlink");
}

sub server {
    my ($redis) = @_;
    expect($redis->info->{loading}, 0, "info");
    expect($redis->info("commandstats")->{"cmdstat_bf.reserve"} =~ /^calls=2,/, 1, "info of commands");
    expect($redis->client_setname("tour"), "OK", "client_setname");
    expect($redis->client_list =~ / name=tour /, 1, "client_list");
    expect_list([$redis->config_get("maxclients")], ["maxclients", 10000], "config_get");
    expect($redis->config_set("maxclients", 10000), "OK", "config_set");
    my ($row) = $redis->command_info("bf.add");
    expect($row->[1], 3, "command_info");
    expect($redis->slowlog_len >= 0, 1, "slowlog_len");
    expect(scalar(my @time = $redis->time), 2, "time");
    expect($redis->dbsize > 0, 1, "dbsize");
    expect($redis->select(1), "OK", "select");
    expect($redis->dbsize, 0, "dbsize of another database");
    expect($redis->select(0), "OK", "select");
}

sub errors {
    my ($redis) = @_;
    refused("item exists", "a second BF.RESERVE", sub { ask($redis, "bf.reserve", "users", 0.001, 1000) });
    refused("not found", "NOCREATE", sub { ask($redis, "bf.insert", "nothing", "NOCREATE", "ITEMS", "x") });
    refused("unknown command", "an unknown command", sub { ask($redis, "nosuch") });
    ok("errors");
}

sub binary {
    my ($redis) = @_;
    expect_list(ask($redis, "bf.madd", $BINARY_KEY, $BINARY_ITEM, ""), [1, 1], "binary items");
    expect(ask($redis, "bf.exists", $BINARY_KEY, $BINARY_ITEM), 1, "a binary item");
    expect_list([$redis->keys("binary:*")], [$BINARY_KEY], "a binary key");
    ok("binary");
}

# A request with a function as its last word does not wait: the function gets the reply.
sub pipeline {
    my ($redis) = @_;
    my @replies;
    my $add = "bf.add";
    $redis->$add("piped", "p:$_", sub { push @replies, $_[0] // $_[1] }) for 0 .. $PIPELINE - 1;
    $redis->wait_all_responses;
    expect_mostly_new(\@replies, $PIPELINE, "the pipeline");
    ok("pipeline");
}

sub transaction {
    my ($redis) = @_;
    expect($redis->watch("counted"), "OK", "watch");
    expect($redis->multi, "OK", "multi");
    expect(ask($redis, "bf.add", "counted", "a"), "QUEUED", "a queued add");
    expect(ask($redis, "bf.exists", "counted", "a"), "QUEUED", "a queued look-up");
    expect_list([$redis->exec], [1, 1], "exec");
    $redis->watch("counted");
    expect(ask(attach(), "bf.add", "counted", "b"), 1, "an add of another client");
    $redis->multi;
    ask($redis, "bf.add", "counted", "c");
    expect(defined scalar($redis->exec) ? 1 : 0, 0, "a watched key that changes");
    expect(ask($redis, "bf.exists", "counted", "c"), 0, "what was not done");
    # An error among the replies, without waiting: each reply has its error beside it.
    $redis->multi;
    ask($redis, "bf.info", "nothing");
    ask($redis, "bf.card", "counted");
    my @replies;
    $redis->exec(sub { @replies = @{ $_[0] } });
    $redis->wait_all_responses;
    expect_list([$replies[0][1], $replies[1][0]], ["ERR not found", 2], "a transaction with an error");
    ok("transaction");
}

sub script {
    my ($redis) = @_;
    my $digest = sha1_hex($ADD_SCRIPT);
    refused("NOSCRIPT", "an unknown script", sub { $redis->evalsha($digest, 1, "scripted", "a") });
    expect($redis->eval($ADD_SCRIPT, 1, "scripted", "a"), 1, "eval");
    expect($redis->evalsha($digest, 1, "scripted", "a"), 0, "evalsha");
    expect($redis->script_load($ADD_SCRIPT), $digest, "script_load");
    expect_list([$redis->script_exists($digest, sha1_hex(""))], [1, 0], "script_exists");
    ok("script");
}

sub batch {
    my ($redis) = @_;
    expect(ask($redis, "bf.reserve", "batch", 0.001, $BATCH), "OK", "BF.RESERVE");
    expect_mostly_new(ask($redis, "bf.madd", "batch", map { "b:$_" } 0 .. $BATCH - 1), $BATCH, "the batch");
    ok("batch");
}

sub tour {
    auth();
    my $redis = attach(name => "tour");
    filters($redis);
    keys_of_any_type($redis);
    strings($redis);
    server($redis);
    ok("commands");
    errors($redis);
    binary($redis);
    pipeline($redis);
    transaction($redis);
    script($redis);
    batch($redis);
}

# The library can connect again by itself, but not where the server closes the connection before it replies.
sub write_forever {
    my $redis;
    for (my $number = 0; ;) {
        if (eval { $redis //= attach(); ask($redis, "bf.add", "written", "w:$number"); 1 }) {
            print $number++, "\n";
            next;
        }
        $@ =~ /Could not connect|Not connected|while reading|Could not write|LOADING/ or die "an add: $@";
        undef $redis;
        sleep 0.02;
    }
}

$ARGV[0] eq "write" ? write_forever() : tour();
