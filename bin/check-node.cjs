/// <reference types="node" />
'use strict';
// Runs on any version of Node, before any other file is loaded. A Node that is too old gets a clear message.
var version = process.versions.node.split('.');
var major = Number(version[0]);
var minor = Number(version[1]);
var needed = major < 21 ? '20.19' : '22.12';
if (major < 20 || (major === 20 && minor < 19) || major === 21 || (major === 22 && minor < 12)) {
  process.stderr.write(
    'seller-mirror needs Node ' + needed + ' or newer; this is ' + major + '.' + minor + '\n',
  );
  process.exit(2);
}
