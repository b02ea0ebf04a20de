// The CPU time and memory of the server, if it runs on this machine.
#pragma once

#include <cstdlib>
#include <dirent.h>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <unistd.h>

namespace rload {

// Reads the data of the server in /proc.
class ServerProcess {
 public:
  ServerProcess(int pid, int port) : pid_(pid != 0 ? pid : find(port)) {}

  struct Cpu {
    double user = 0;
    double system = 0;
  };
  [[nodiscard]] Cpu cpu() const {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
    std::string line;
    if (pid_ == 0 || !std::getline(file, line)) return {};
    std::istringstream fields(line.substr(line.rfind(')') + 2));
    std::string skipped;
    for (int i = 0; i < 11; ++i) fields >> skipped;
    Cpu cpu;
    fields >> cpu.user >> cpu.system;
    const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    return {.user = cpu.user / ticks, .system = cpu.system / ticks};
  }

  [[nodiscard]] double resident_megabytes() const {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/status");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("VmRSS:")) return std::atof(line.c_str() + 6) / 1024;
    }
    return 0;
  }

 private:
  // Finds the inode of the socket that listens on the port, then the process that has this socket.
  static int find(int port) {
    char suffix[16];
    std::snprintf(suffix, sizeof suffix, ":%04X", port);
    std::string inode;
    for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
      std::ifstream file(path);
      for (std::string line; std::getline(file, line);) {
        std::istringstream fields(line);
        std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, number;
        fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >>
            number;
        if (state == "0A" && local.ends_with(suffix)) inode = number;
      }
    }
    return inode.empty() ? 0 : holder_of("socket:[" + inode + "]");
  }

  static int holder_of(const std::string& target) {
    const auto close = [](DIR* directory) { closedir(directory); };
    const std::unique_ptr<DIR, decltype(close)> processes(opendir("/proc"), close);
    while (const dirent* entry = readdir(processes.get())) {
      const int pid = std::atoi(entry->d_name);
      const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
      const std::unique_ptr<DIR, decltype(close)> files(pid > 0 ? opendir(folder.c_str()) : nullptr, close);
      while (const dirent* file = files ? readdir(files.get()) : nullptr) {
        char link[64] = {};
        const ssize_t length = readlink((folder + "/" + file->d_name).c_str(), link, sizeof link - 1);
        if (length > 0 && target == link) return pid;
      }
    }
    return 0;
  }

  int pid_;
};

}  // namespace rload
