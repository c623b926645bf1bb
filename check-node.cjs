'use strict';
// Any Node can run this file: an older one than this program needs is told so before anything else is loaded.
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
