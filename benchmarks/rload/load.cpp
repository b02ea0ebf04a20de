#include "load.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <csignal>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace rload {
namespace {

constexpr std::size_t latencies_reserved_max = 50'000'000;
constexpr std::chrono::seconds reply_patience{5};

volatile std::sig_atomic_t interrupted = 0;

int connect_to(const Options& options) {
  const bool local = !options.unix_path.empty();
  const int descriptor = socket(local ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
  int outcome = 0;
  if (local) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, options.unix_path.c_str(), sizeof address.sun_path - 1);
    outcome = connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address);
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(options.port));
    inet_pton(AF_INET, options.host.c_str(), &address.sin_addr);
    outcome = connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address);
    const int on = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  if (outcome != 0) give_up("cannot connect", exit_usage);
  if (!options.password.empty()) {
    const std::string request = "AUTH " + options.password + "\r\n";
    char reply[256];
    if (write(descriptor, request.data(), request.size()) < 0 || read(descriptor, reply, sizeof reply) <= 0) {
      give_up("cannot authenticate");
    }
  }
  return descriptor;
}

}  // namespace

void Connection::send_more() {
  while (sent < out.size()) {
    const ssize_t count = send(descriptor, out.data() + sent, out.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) give_up("cannot send");
    sent += static_cast<std::size_t>(count);
  }
}

Load::Load(const Options& options)
    : options_(options), maker_(options), connections_(static_cast<std::size_t>(options.connection_count)) {
  for (Connection& connection : connections_) connection.descriptor = connect_to(options);
  prepare();
}

void Load::prepare() {
  const auto pipeline = static_cast<std::uint64_t>(options_.pipeline);
  const std::uint64_t batches_needed = (options_.requests + pipeline - 1) / pipeline;
  const std::uint64_t batches_that_differ =
      maker_.repeats_itself() ? options_.commands.size() : batches_needed;
  const std::uint64_t bytes_max = options_.prepared_megabytes << 20;
  std::uint64_t bytes = 0;
  while (prepared_.size() < std::min(batches_that_differ, batches_needed) &&
         (bytes < bytes_max || prepared_.size() < connections_.size())) {
    prepared_.push_back(maker_.batch(options_.pipeline));
    bytes += prepared_.back().size();
  }
  outcome_.latencies_us.reserve(std::min<std::uint64_t>(batches_needed, latencies_reserved_max));
}

Outcome Load::run() {
  std::signal(SIGINT, [](int) { interrupted = 1; });
  start_all();
  std::vector<epoll_event> events(1024);
  while (in_flight_ > 0 || more_to_send()) {
    send_due();
    const int count = wait(events);
    const Clock::time_point now = Clock::now();
    if (count > 0) heard_ = now;
    if (in_flight_ > 0 && now - heard_ > reply_patience) {
      std::fprintf(stderr, "rload: no reply in %lld s\n", static_cast<long long>(reply_patience.count()));
      outcome_.complete = false;
      break;
    }
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      serve(*static_cast<Connection*>(event.data.ptr), event.events);
    }
  }
  outcome_.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  for (const Connection& connection : connections_) outcome_.errors += connection.scanner.errors();
  std::sort(outcome_.latencies_us.begin(), outcome_.latencies_us.end());
  return std::move(outcome_);
}

void Load::start_all() {
  epoll_ = epoll_create1(0);
  start_ = heard_ = Clock::now();
  for (Connection& connection : connections_) {
    if (options_.requests_per_second > 0) {
      idle_.push_back(&connection);
    } else if (more_to_send()) {
      issue(connection, Clock::now());
    }
    epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLET, .data = {.ptr = &connection}};
    epoll_ctl(epoll_, EPOLL_CTL_ADD, connection.descriptor, &event);
  }
  // The kernel must not delay due batches to combine wake-ups.
  if (options_.requests_per_second > 0) prctl(PR_SET_TIMERSLACK, 1);
}

bool Load::more_to_send() const {
  const bool late = options_.seconds > 0 && Clock::now() - start_ > std::chrono::seconds(options_.seconds);
  return interrupted == 0 && !late && issued_ < options_.requests;
}

Clock::time_point Load::next_due() const {
  if (options_.requests_per_second == 0) return Clock::time_point::max();
  const double seconds = static_cast<double>(issued_) / static_cast<double>(options_.requests_per_second);
  return start_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void Load::send_due() {
  while (!idle_.empty() && next_due() <= Clock::now() && more_to_send()) {
    Connection& connection = *idle_.front();
    idle_.pop_front();
    issue(connection, next_due());
  }
}

int Load::wait(std::vector<epoll_event>& events) {
  Clock::duration patience = reply_patience;
  if (!idle_.empty() && more_to_send()) {
    patience = std::clamp<Clock::duration>(next_due() - Clock::now(), Clock::duration::zero(), patience);
  }
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(patience);
  const timespec timeout{.tv_sec = whole.count(), .tv_nsec = (patience - whole).count()};
  return epoll_pwait2(epoll_, events.data(), static_cast<int>(events.size()), &timeout, nullptr);
}

void Load::issue(Connection& connection, Clock::time_point start) {
  next_batch(connection);
  ++in_flight_;
  connection.start = start;
  connection.send_more();
}

void Load::next_batch(Connection& connection) {
  const bool fresh = next_prepared_ >= prepared_.size() && maker_.uses_sequence();
  connection.out = fresh ? maker_.batch(options_.pipeline) : prepared_[next_prepared_++ % prepared_.size()];
  connection.sent = 0;
  connection.replies_awaited = static_cast<std::uint64_t>(options_.pipeline);
  issued_ += connection.replies_awaited;
}

void Load::serve(Connection& connection, std::uint32_t events) {
  if ((events & EPOLLOUT) != 0) connection.send_more();
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) return;
  while (true) {
    const ssize_t count = recv(connection.descriptor, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (count < 0) return;
    if (count == 0) {
      std::fprintf(stderr, "rload: connection closed by the server\n");
      outcome_.complete = false;
      if (connection.replies_awaited > 0) --in_flight_;
      close(connection.descriptor);
      return;
    }
    if (!arrived(connection, static_cast<std::size_t>(count))) return;
    if (static_cast<std::size_t>(count) < buffer_.size()) return;
  }
}

// False if the connection sends nothing now.
bool Load::arrived(Connection& connection, std::size_t size) {
  const std::uint64_t done = connection.scanner.scan(buffer_.data(), size);
  if (done == 0) return true;
  connection.replies_awaited -= done;
  outcome_.completed += done;
  if (connection.replies_awaited > 0) return true;
  const auto now = Clock::now();
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(now - connection.start);
  outcome_.latencies_us.push_back(static_cast<std::uint32_t>(took.count()));
  --in_flight_;
  if (options_.requests_per_second > 0) {
    idle_.push_back(&connection);
    return false;
  }
  if (!more_to_send()) return false;
  issue(connection, now);
  return true;
}

}  // namespace rload
