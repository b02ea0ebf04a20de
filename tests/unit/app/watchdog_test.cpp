#include "app/threads/watchdog.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/catch.hpp"

namespace sepal::app::watchdog_test {
namespace {

// The socket of a service manager, under an abstract name.
class ManagerSocket {
 public:
  ManagerSocket() : name_("@sepal-unit-test-" + std::to_string(getpid())) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name_.copy(address.sun_path + 1, name_.size() - 1, 1);
    REQUIRE(::bind(socket_.number(), reinterpret_cast<const sockaddr*>(&address),
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size())) == 0);
    setenv("NOTIFY_SOCKET", name_.c_str(), 1);
    setenv("WATCHDOG_USEC", "2000", 1);
    unsetenv("WATCHDOG_PID");
  }
  ~ManagerSocket() {
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
  }
  // Waits for a message.
  std::string next() { return receive(0); }
  // What has arrived by now; empty: nothing.
  std::string arrived() { return receive(MSG_DONTWAIT); }

 private:
  std::string receive(int flags) {
    std::string text(4096, '\0');
    const ssize_t count = ::recv(socket_.number(), text.data(), text.size(), flags);
    text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return text;
  }

  std::string name_;
  Descriptor socket_{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
};

}  // namespace

TEST_CASE("the watchdog is fed as long as the workers take their turns") {
  ManagerSocket socket;
  ServiceManager manager;
  Watchdog watchdog(manager);
  watchdog.begin([](const std::function<void()>& done) { done(); });
  for (int i = 0; i < 3; ++i) CHECK(socket.next() == "WATCHDOG=1");
  watchdog.end();
}

TEST_CASE("the watchdog is not fed when a worker is stuck, and it can be ended") {
  ManagerSocket socket;
  ServiceManager manager;
  Watchdog watchdog(manager);
  Mutex mutex;
  Condition changed;
  std::vector<std::function<void()>> stuck;
  watchdog.begin([&](std::function<void()> done) {
    const MutexLock lock(mutex);
    stuck.push_back(std::move(done));
    changed.notify_all();
  });
  const auto wait_for_questions = [&](std::size_t count) {
    const MutexLock lock(mutex);
    while (stuck.size() < count) changed.wait(mutex);
    return stuck.back();
  };
  wait_for_questions(1)();
  CHECK(socket.next() == "WATCHDOG=1");
  const auto late = wait_for_questions(2);
  watchdog.end();
  CHECK(socket.arrived().empty());
  late();  // the worker comes back after the end
  CHECK(socket.arrived().empty());
}

TEST_CASE("the manager hears of a reload only while the server is ready") {
  ManagerSocket socket;
  ServiceManager manager;
  manager.reloading();
  manager.reloaded("");
  CHECK(socket.arrived().empty());
  manager.loading(50, 200);
  CHECK(socket.next() == "STATUS=Loading: 25 % (50 of 200 bytes)\nEXTEND_TIMEOUT_USEC=30000000");
  manager.ready("Serves");
  CHECK(socket.next() == "READY=1\nSTATUS=Serves");
  manager.loading(60, 200);
  CHECK(socket.arrived().empty());
  manager.reloading();
  CHECK(socket.next().starts_with("RELOADING=1\nMONOTONIC_USEC="));
  manager.reloaded("a\nb: no such file");
  CHECK(socket.next() == "READY=1\nSTATUS=The last reload failed: a b: no such file");
  manager.reloading();
  CHECK(socket.next().starts_with("RELOADING=1\n"));
  manager.reloaded("");
  CHECK(socket.next() == "READY=1\nSTATUS=Serves");
  manager.stopping("Stops");
  CHECK(socket.next() == "STOPPING=1\nSTATUS=Stops");
  manager.reloading();
  manager.reloaded("");
  CHECK(socket.arrived().empty());
}

}  // namespace sepal::app::watchdog_test
