// Preloaded into servers that would listen on every address of the machine.
const net = require("node:net");

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  return listen.call(this, port, "127.0.0.1", ...rest);
};
