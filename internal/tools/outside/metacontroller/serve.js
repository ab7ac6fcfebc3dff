// Has a server listen on PORT, whatever it asks for.
const { Server } = require('net');
const listen = Server.prototype.listen;
Server.prototype.listen = function () { return listen.call(this, Number(process.env.PORT), '127.0.0.1'); };
