#include <sepal/tls/connection.hpp>

#include <sys/socket.h>
#include <unistd.h>

#include "support/catch.hpp"
#include "unit/tls/tls_world.hpp"

namespace sepal::tls::connection_test {
namespace {

using Status = Connection::Status;
using namespace test;

std::string received(Connection& from, std::size_t bytes_max = 65536) {
  std::string bytes(bytes_max, '\0');
  const Connection::Transfer transfer = from.receive(bytes);
  bytes.resize(transfer.byte_count);
  return bytes;
}

TEST_CASE("bytes go both ways, and the end is told") {
  const Files files;
  Pair pair(loaded(Context::load(files.options())), loaded(Context::load_for_client(files.client_options())));
  pair.shake_hands();
  REQUIRE(pair.both_done());
  CHECK(pair.client->send("request").byte_count == 7);
  CHECK(received(*pair.server) == "request");
  std::string none(1, '\0');
  CHECK(pair.server->receive(none).status == Status::wants_read);
  CHECK(pair.server->send("reply").byte_count == 5);
  CHECK(received(*pair.client) == "reply");
  pair.server->end();
  pair.server->end();
  CHECK(pair.client->receive(none).status == Status::ended);
  // The other direction goes on.
  CHECK(pair.client->send("more").status == Status::done);
  CHECK(received(*pair.server) == "more");
  CHECK(pair.server->common_name().empty());
}

TEST_CASE("a peer that ends without a word has ended") {
  const Files files;
  Pair pair(loaded(Context::load(files.options())), loaded(Context::load_for_client(files.client_options())));
  pair.shake_hands();
  REQUIRE(pair.both_done());
  pair.client_socket.close();
  std::string none(1, '\0');
  CHECK(pair.server->receive(none).status == Status::ended);
}

// The sender's own buffer may move between two calls, and more bytes may stand behind those that wait.
TEST_CASE("what the socket does not take is sent again from another place") {
  const Files files;
  Pair pair(loaded(Context::load(files.options())), loaded(Context::load_for_client(files.client_options())));
  pair.shake_hands();
  REQUIRE(pair.both_done());
  std::string sent;
  for (int i = 0; sent.size() < 3'000'000; ++i) sent += std::to_string(i) + ",";
  std::string got;
  std::size_t at = 0;
  bool has_waited = false;
  while (got.size() < sent.size()) {
    const std::string elsewhere = sent.substr(at, has_waited ? 100'000 : 50'000);
    const Connection::Transfer transfer = elsewhere.empty()
                                              ? Connection::Transfer{.status = Status::wants_write}
                                              : pair.server->send(elsewhere);
    at += transfer.byte_count;
    if (transfer.status == Status::done) continue;
    REQUIRE(transfer.status == Status::wants_write);
    has_waited = true;
    for (std::string piece = received(*pair.client); !piece.empty(); piece = received(*pair.client))
      got += piece;
  }
  CHECK(got == sent);
}

TEST_CASE("a receive takes no more than there is room for, and the rest stays") {
  const Files files;
  Pair pair(loaded(Context::load(files.options())), loaded(Context::load_for_client(files.client_options())));
  pair.shake_hands();
  REQUIRE(pair.client->send("abcdef").byte_count == 6);
  CHECK(received(*pair.server, 4) == "abcd");
  CHECK(pair.server->holds_bytes());
  CHECK(received(*pair.server, 4) == "ef");
  CHECK_FALSE(pair.server->holds_bytes());
}

TEST_CASE("a certificate of a client is wanted, optional or not looked at") {
  const Files files;
  Context::ClientOptions with = files.client_options();
  with.certificate_file = files.alice.certificate_file;
  with.key_file = files.alice.key_file;
  const auto alice = loaded(Context::load_for_client(with));
  const auto unnamed = loaded(Context::load_for_client(files.client_options()));
  for (const AuthClients auth : {AuthClients::no, AuthClients::optional, AuthClients::yes}) {
    const auto server = loaded(Context::load(files.options(auth)));
    Pair first(server, alice);
    first.shake_hands();
    REQUIRE(first.both_done());
    CHECK(first.server->common_name() == (auth == AuthClients::no ? "" : "alice"));
    Pair second(server, unnamed);
    second.shake_hands();
    if (auth != AuthClients::yes) {
      CHECK(second.both_done());
      CHECK(second.server->common_name().empty());
    } else {
      CHECK(second.server_status == Status::failed);
      CHECK(second.server->failure() == Failure::certificate);
      CHECK(second.server->reason() == "peer did not return a certificate");
    }
  }
}

TEST_CASE("a certificate of a client that is not valid is refused, also where it is optional") {
  const Files files;
  const test::TestCertificate other_ca(files.path("other"), {.common_name = "other CA"});
  const test::TestCertificate stranger(files.path("stranger"), {.common_name = "alice"}, &other_ca);
  const test::TestCertificate expired(files.path("expired"), {.common_name = "alice", .valid_seconds = -60},
                                      &files.ca);
  const auto server = loaded(Context::load(files.options(AuthClients::optional)));
  const auto refused = [&](const test::TestCertificate& certificate) {
    Context::ClientOptions options = files.client_options();
    options.certificate_file = certificate.certificate_file;
    options.key_file = certificate.key_file;
    Pair pair(server, loaded(Context::load_for_client(options)));
    pair.shake_hands();
    CHECK(pair.server_status == Status::failed);
    CHECK(pair.server->failure() == Failure::certificate);
    CHECK(pair.server->common_name().empty());
    return pair.server->reason();
  };
  CHECK(refused(expired) == "certificate verify failed: certificate has expired");
  CHECK(refused(stranger) == "certificate verify failed: unable to get local issuer certificate");
}

TEST_CASE("a client refuses a server of another CA or another name") {
  const Files files;
  const test::TestCertificate other_ca(files.path("other"), {.common_name = "other CA"});
  const auto server = loaded(Context::load(files.options()));
  const auto reason_of = [&](const std::string& ca_file, const std::string& name) {
    Pair pair(server, loaded(Context::load_for_client({.ca_file = ca_file})), name);
    pair.shake_hands();
    CHECK(pair.client_status == Status::failed);
    CHECK(pair.server->failure() == Failure::refused_by_peer);
    return pair.client->reason();
  };
  CHECK(reason_of(other_ca.certificate_file, "localhost").starts_with("certificate verify failed: "));
  CHECK(reason_of(files.ca.certificate_file, "elsewhere") == "certificate verify failed: hostname mismatch");
  CHECK(reason_of(files.ca.certificate_file, "127.0.0.2") ==
        "certificate verify failed: IP address mismatch");
  Pair by_address(server, loaded(Context::load_for_client(files.client_options())), "127.0.0.1");
  by_address.shake_hands();
  CHECK(by_address.both_done());
  Pair blind(server, loaded(Context::load_for_client({.ca_file = {}, .verifies = false})), "elsewhere");
  blind.shake_hands();
  CHECK(blind.both_done());
}

TEST_CASE("other bytes than TLS end the handshake, and so does the end of the peer") {
  const Files files;
  const auto server = loaded(Context::load(files.options()));
  const auto client = loaded(Context::load_for_client(files.client_options()));
  Pair pair(server, client);
  REQUIRE(::write(pair.client_socket.number(), "*1\r\n$4\r\nPING\r\n", 14) == 14);
  CHECK(pair.server->handshake() == Status::failed);
  CHECK(pair.server->failure() == Failure::protocol);
  CHECK(pair.server->reason() == "wrong version number");
  Pair other(server, client);
  CHECK(other.server->handshake() == Status::wants_read);
  other.client_socket.close();
  CHECK(other.server->handshake() == Status::failed);
  CHECK(other.server->failure() == Failure::closed);
}

TEST_CASE("the versions of TLS can be chosen") {
  const Files files;
  Options options = files.options();
  options.protocols = Protocols::tls_1_2;
  const auto old = loaded(Context::load(options));
  Pair first(old, loaded(Context::load_for_client(files.client_options())));
  first.shake_hands();
  CHECK(first.both_done());
  options.protocols = Protocols::tls_1_3;
  Pair second(loaded(Context::load(options)), loaded(Context::load_for_client(files.client_options())));
  second.shake_hands();
  CHECK(second.both_done());
}

}  // namespace
}  // namespace sepal::tls::connection_test
