/** A self-signed certificate for localhost, www.localhost and 127.0.0.1; for tests only, valid for a century. */
export const certificate = {
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg08mzuTHHhTh8aQeg
bKMB5Ntr7wI8JlgHY35KfgC42jGhRANCAAREf/v18afIJETDhx8yyM7FinIyAn+b
VHhNN93IGzyyHp/eAtYfUdmsbmYueftOkTFw+iDVUVy+o2bLROiTbvoR
-----END PRIVATE KEY-----`,
  cert: `-----BEGIN CERTIFICATE-----
MIIBqjCCAVCgAwIBAgIUXgaN2VSomGiO+Q1oEJZXnIrHYcIwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMTAyMzEwMVoYDzIxMjYxMDI4
MDIzMTAxWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAREf/v18afIJETDhx8yyM7FinIyAn+bVHhNN93IGzyyHp/eAtYfUdms
bmYueftOkTFw+iDVUVy+o2bLROiTbvoRo34wfDAdBgNVHQ4EFgQUZ/2+MgX2Qnfo
Gjiklhzg4kfE89wwHwYDVR0jBBgwFoAUZ/2+MgX2QnfoGjiklhzg4kfE89wwDwYD
VR0TAQH/BAUwAwEB/zApBgNVHREEIjAggglsb2NhbGhvc3SCDXd3dy5sb2NhbGhv
c3SHBH8AAAEwCgYIKoZIzj0EAwIDSAAwRQIhAPkD5ei/kgPVA0ZudF1ZbpNQKPnN
qM0qPVvwm4wXsYmDAiAnW+Tm65rxGQrrcUGvR10Z86LdtpqnpHoAQOoBzeRhuw==
-----END CERTIFICATE-----`,
};
